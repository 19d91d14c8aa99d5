variable "project_id" {
  description = "The project of the environment."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project: must be 6 to 30 lower-case letters, digits and hyphens, and start with a letter"
  }
}

variable "environment" {
  description = "The display name of the environment."
  type        = string
}

variable "region" {
  description = "The region in the prepared provider file."
  type        = string
}

variable "bucket" {
  description = "Name and location of the automation bucket."
  type        = object({ name = string, location = string })
}

variable "service_account" {
  description = "The id of the automation account."
  type        = string
  default     = "automation"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.service_account))
    error_message = "service_account: must be 6 to 30 lower-case letters, digits and hyphens, and start with a letter"
  }
}

variable "services" {
  description = "Services to enable."
  type        = set(string)

  validation {
    condition     = alltrue([for service in var.services : endswith(service, ".googleapis.com")])
    error_message = "services: must end in .googleapis.com"
  }
}

variable "roles" {
  description = "Roles of the automation account in the project."
  type        = set(string)

  validation {
    condition     = length(setintersection(var.roles, ["roles/owner", "roles/editor"])) == 0
    error_message = "roles: must not include owner or editor"
  }
}

variable "grants" {
  description = "Roles that the automation account may grant in the project."
  type        = set(string)

  validation {
    condition     = length(setintersection(var.grants, ["roles/owner", "roles/editor"])) == 0
    error_message = "grants: must not include owner or editor"
  }
}

variable "build_account" {
  description = "The id of the service account of image builds; null for none."
  type        = string
  default     = null
}

variable "state_prefix" {
  description = "The folder in the bucket for the states of the stages."
  type        = string
}

variable "stages" {
  description = "Stages for which backend files are prepared."
  type        = set(string)
  default     = ["0-bootstrap", "1-base", "2-cluster", "3-serving", "4-load"]
}

variable "force_destroy" {
  description = "Whether the bucket may be destroyed when it is not empty."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of the bucket."
  type        = map(string)
  default     = {}
}
