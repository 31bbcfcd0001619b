"""AgentConnection, the boundary that user interfaces talk to.

`port` is what they may ask, `events` what they are told. Two adapters keep its promises:
`in_process`, and `daemon` over the local protocol, whose other end is `server`.
"""
