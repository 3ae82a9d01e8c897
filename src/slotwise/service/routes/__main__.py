"""Write the OpenAPI description: `python -m slotwise.service.routes > docs/openapi.json`."""

from __future__ import annotations

import json
import sys

from slotwise.service.openapi import openapi_document
from slotwise.service.routes import OPERATIONS

__all__ = ["main"]


def main() -> None:
    """Write the description to standard output."""
    json.dump(openapi_document(OPERATIONS), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
