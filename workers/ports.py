"""TCP ports of 127.0.0.1 that nobody uses and that the system hands to nobody else."""

import random
import socket

# Below the range from which Linux takes the source ports of outgoing connections (32768 on): a broker that is
# down for a moment finds its port free again.
_FIRST, _LAST = 20_000, 32_000


def free_port(taken: frozenset[int] = frozenset()) -> int:
    """A port that can be bound now, none of ``taken``.

    Raises:
        OSError: A thousand tries found none.
    """
    for _ in range(1_000):
        port = random.randint(_FIRST, _LAST)
        if port not in taken and _is_free(port):
            return port
    raise OSError(f"no free TCP port between {_FIRST} and {_LAST} on 127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
