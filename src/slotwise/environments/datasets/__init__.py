"""Data sets: look-alikes drawn from written recipes, and loaders of the original files.

Reading files needs polars (`pip install 'slotwise[experiments]'`); the look-alikes do not.
"""

from slotwise.environments.datasets.dataset import Dataset
from slotwise.environments.datasets.look_alikes.ads_like import ads_recipe
from slotwise.environments.datasets.look_alikes.coupon_like import coupon_recipe
from slotwise.environments.datasets.look_alikes.edx_like import edx_recipe
from slotwise.environments.datasets.look_alikes.shop_like import shop_recipe
from slotwise.environments.datasets.look_alikes.tiny_rates import tiny_rates_recipe
from slotwise.environments.datasets.outlook import Outlook, look_ahead
from slotwise.environments.datasets.registry import (
    DATASETS,
    Loader,
    LookAlike,
    find_dataset,
    load_dataset,
)

__all__ = [
    "DATASETS",
    "Dataset",
    "Loader",
    "LookAlike",
    "Outlook",
    "ads_recipe",
    "coupon_recipe",
    "edx_recipe",
    "find_dataset",
    "load_dataset",
    "look_ahead",
    "shop_recipe",
    "tiny_rates_recipe",
]
