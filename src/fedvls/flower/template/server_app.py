"""What runs at the server, once per run."""

from fedvls.flower import server_app

app = server_app()
