"""Your own data loader, for data that are neither an .npz, nor a folder of images, nor a table.

Use it with client_app(data=load), or per node with --node-config 'site=0 data-function="site_data:load"'.
"""

from typing import Any

import numpy as np

import fedvls


def load(node: dict[str, Any]) -> fedvls.FederatedData:
    """This site's samples. `node` is what the node was started with: its number `site`, and anything you add."""
    with np.load(str(node["data-path"])) as arrays:
        return fedvls.FederatedData.from_arrays(
            arrays["x_train"],
            arrays["y_train"],
            arrays["x_test"],
            arrays["y_test"],
            classes=10,  # of the whole federation: a site that lacks the last class must say how many there are
        )
