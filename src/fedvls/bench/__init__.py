"""`fedvls bench`: our engines beside plain loops and other programs, same data, same partition, same start, one run.

Every row of the table is a process of its own that reads the same folder (`inputs`), follows the same small protocol
(`rivals/shared.py`) and is watched by the same code (`watch`), so that its peak memory and its threads are its own.
"""
