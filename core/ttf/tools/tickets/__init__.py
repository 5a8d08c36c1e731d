"""Work in many independent pieces on several hosts: node 0 gives each piece to one of them, as a
ticket, and keeps the results.

    other node                              node 0
      |-- hello: versions, data, holds ------>|  compared; refused by name, or
      |<-- welcome -----------------------------|
      |-- want -------------------------------->|
      |<-- ticket ------------------------------|  also later, when one is free
      |-- result ------------------------------>|  durable there, then
      |<-- kept --------------------------------|
      |<-- over --------------------------------|

Every message is JSON with a length and a checksum (`ttf.process.messages`); nothing is unpickled. A
node that is lost gives nothing back: its ticket goes to another one. `desk` is the end of node 0,
`follower` that of the others, `facts` says what they compare, `pieces` sends files of numbers.
"""
