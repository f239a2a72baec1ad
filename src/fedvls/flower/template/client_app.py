"""What runs at a site. Everything about the method and the model is in pyproject.toml."""

from fedvls.flower import client_app

# The node says where its data are (--node-config 'site=0 data-path="/data/site.npz"'). For data in any other form,
# write the function in site_data.py and pass it on: client_app(data=load).
app = client_app()
