"""`ttf export`: a trained retriever in formats of others, loaded back by their libraries.

make.py       the verb: what is asked for -> scratch folder -> write -> read back -> compare -> rename
asked.py      what the user asked for, checked before any work
expected.py   the queries of the check, and what ttf itself answers to them
smaller.py    fewer dimensions and int8
given.py      what an exporter gets, in the process that runs it (child.py)
compare.py    are two answers the same?
"""
