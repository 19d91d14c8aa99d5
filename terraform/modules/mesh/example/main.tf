module "mesh" {
  source = "../../modules/mesh"

  project_id     = "my-project"
  name           = module.cluster.name
  cluster_id     = module.cluster.id
  create_feature = false # another cluster of the project has a mesh
}
