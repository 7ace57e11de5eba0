"""One quantity each: network, loss, optimiser. No graphs, no environments."""
