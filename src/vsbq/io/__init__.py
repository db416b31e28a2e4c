"""Everything that reads or writes: posterior files and exports, readers of other tools, the recorder."""
