"""Raw HTML to a trained GPT-2, as six cached Dagster assets."""
