"""MLflow's tracking server, as far as its REST API is needed to keep and to read experiments and runs.

https://mlflow.org/docs/latest/api_reference/rest-api.html . Models, traces, artifacts and data sets are not simulated.
"""
