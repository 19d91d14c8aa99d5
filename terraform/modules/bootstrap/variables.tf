variable "project_id" {
  description = "The project that everything is made in."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "A project id has 6 to 30 lower-case letters, digits and hyphens, and begins with a letter."
  }
}

variable "environment" {
  description = "The name of the environment, for people to read."
  type        = string
}

variable "region" {
  description = "The region that the prepared provider file names."
  type        = string
}

variable "bucket" {
  description = "The automation bucket: its name, and where it lies."
  type        = object({ name = string, location = string })
}

variable "service_account" {
  description = "The id of the account that provisions the environment."
  type        = string
  default     = "automation"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.service_account))
    error_message = "A service account id has 6 to 30 lower-case letters, digits and hyphens, and begins with a letter."
  }
}

variable "services" {
  description = "Services to enable."
  type        = set(string)

  validation {
    condition     = alltrue([for service in var.services : endswith(service, ".googleapis.com")])
    error_message = "Services end in .googleapis.com."
  }
}

variable "roles" {
  description = "Roles of the automation account in the project."
  type        = set(string)

  validation {
    condition     = length(setintersection(var.roles, ["roles/owner", "roles/editor"])) == 0
    error_message = "The automation account gets the roles it needs, never owner or editor."
  }
}

variable "cloud_build" {
  description = "Whether Cloud Build may act as the automation account."
  type        = bool
  default     = true
}

variable "state_prefix" {
  description = "The folder of the bucket under which each stage keeps its state."
  type        = string
}

variable "stages" {
  description = "The stages to prepare backend files for."
  type        = set(string)
  default     = ["0-bootstrap", "1-base", "2-cluster", "3-serving", "4-load"]
}

variable "force_destroy" {
  description = "Whether the bucket may be destroyed with what is in it."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of the bucket."
  type        = map(string)
  default     = {}
}
