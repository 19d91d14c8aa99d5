output "bootstrap" {
  description = "What the next stages take from this one."
  value = {
    bucket          = module.bootstrap.bucket
    service_account = module.bootstrap.service_account
  }
}
