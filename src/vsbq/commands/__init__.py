"""The commands behind `vsbq`, one module each: `add` describes the options, `run` does the work.

`vsbq.cli` puts them together, and turns whatever they raise into one line and an exit code.
"""
