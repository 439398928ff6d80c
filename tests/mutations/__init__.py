"""Random mutations of valid specs, files and command lines: each must run, or be refused in one sentence."""
