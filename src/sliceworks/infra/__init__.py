"""An Environment turned into Terraform stages and Cloud Build files."""
