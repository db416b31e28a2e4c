"""The command line, `vsbq`: one module for each command, in which `add` describes the options and `run` does the work.

`program` puts them together, and turns whatever they raise into one line and an exit code. What commands share is in
`problem` and `options` (what the user says about the files), `input` (what is read), `output` (what is left behind) and
`terminal` (what is said).
"""

from vsbq.cli.program import COMMANDS, main

__all__ = ["COMMANDS", "main"]
