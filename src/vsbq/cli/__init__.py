"""The command line, `vsbq`: one module for each command, in which `add` describes the options and `run` does the work.

`program` puts them together, and turns whatever they raise into one line and an exit code.
"""

from vsbq.cli.program import main

__all__ = ["main"]
