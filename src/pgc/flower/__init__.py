"""pgc over Flower: a node that answers offers with ε-LDP reports, and a server that collects them.

    client.py     for the owner of a node: `LocalPrivacy`, in the place of Flower's `LocalDpMod`
    node.py       for the owner of a node: answers tasks of a SuperNode without running its app
    server.py     for the aggregator: `Collection` hands out offers over a `Grid`
    messages.py   how offers, reports and refusals travel in Flower's messages

**Guarantee.** It is that of `pgc.Device`: everything that a node returns is ε-LDP for its private
data, with the ε of its ledger. It holds where nothing but `Device` touches private data: on a node
whose owner runs `node.py`. An app that comes from the aggregator can leave any mod out.
"""
