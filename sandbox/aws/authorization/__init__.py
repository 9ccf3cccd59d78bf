"""Whether IAM policies allow what a caller asks for: identity policies alone, evaluated as IAM documents it."""
