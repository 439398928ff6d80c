"""Data that people bring, read as arrays: files, folders, tables and datasets of other libraries."""
