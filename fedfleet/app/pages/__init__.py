"""HTML pages, each one self-contained file, with figures as inline SVG."""
