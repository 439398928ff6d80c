"""The demo: two study files, how their runs are performed in one folder, and what they show in words."""
