output "bootstrap" {
  description = "Inputs of the next stages."
  value = {
    bucket          = module.bootstrap.bucket
    service_account = module.bootstrap.service_account
  }
}
