"""`instantstart`: a thin face of the gateway for terminals, and the launcher of the local stack."""
