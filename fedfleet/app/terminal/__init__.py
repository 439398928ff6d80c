"""What every verb needs on a terminal: commands and options, answers, progress, numbers as text."""
