"""What people look at: pictures as inline SVG, pages as self-contained HTML."""
