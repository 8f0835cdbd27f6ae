# Boots the base disk once and runs ansible/image.yml on it, the roles and packages that the fleet has.
#
# packer/build_image.sh (make image) makes the base disk and gives the variables. This file keeps to what Packer 1.6.6 of
# Debian 12 understands; 1.11 and newer get their plugins by `packer init packer/plugins` first.

variable "base" {
  type        = string
  description = "The base disk, raw."
}

variable "disk_mib" {
  type        = number
  description = "Its size."
}

variable "output" {
  type        = string
  description = "Folder that the disk is written to; it must not exist."
}

variable "key" {
  type        = string
  description = "Private key for this boot; its public half lies beside it. Neither stays in the image."
}

variable "packages" {
  type        = string
  description = "Folder with the Debian packages of Strongroom."
}

variable "accelerator" {
  type        = string
  description = "The answer of packer/accelerator.sh: kvm, or tcg, which emulates."
}

variable "kernel" {
  type        = string
  description = "Kernel of the base disk; its initial RAM disk lies beside it, with the end .initrd."
}

variable "memory_mib" {
  type    = number
  default = 2048
}

locals {
  emulated  = var.accelerator == "tcg"
  processor = local.emulated ? "max" : "host"
}

source "qemu" "appliance" {
  disk_image         = true
  iso_url            = var.base
  iso_checksum       = "none"
  disk_size          = "${var.disk_mib}M"
  disk_interface     = "virtio"
  disk_discard       = "unmap"
  disk_detect_zeroes = "unmap"
  disk_cache         = "unsafe"
  disk_compression   = false
  skip_compaction    = true
  format             = "qcow2"
  accelerator        = var.accelerator
  headless           = true
  memory             = var.memory_mib
  cpus               = 2
  net_device         = "virtio-net"
  vnc_bind_address   = "127.0.0.1"
  output_directory   = var.output
  vm_name            = "appliance.qcow2"

  communicator         = "ssh"
  ssh_username         = "root"
  ssh_private_key_file = var.key
  ssh_timeout          = "20m"
  boot_wait            = "1s"
  shutdown_command     = "systemctl poweroff"
  shutdown_timeout     = "10m"

  qemuargs = [
    ["-cpu", local.processor],
    ["-serial", "file:${var.output}.console"],
    ["-device", "virtio-rng-pci"],
    ["-device", "virtio-net,netdev=user.0"],
    # No way out, and secure shell for this machine only.
    ["-netdev", "user,id=user.0,restrict=on,hostfwd=tcp:127.0.0.1:{{ .SSHHostPort }}-:22"],
    # systemd takes root's key from here; the base disk holds none.
    ["-smbios", "type=11,value=io.systemd.credential.binary:ssh.authorized_keys.root=${base64encode(file("${var.key}.pub"))}"],
    # And that this is an image that is being built, without which image.yml does nothing.
    ["-smbios", "type=11,value=io.systemd.credential:strongroom.image-build=yes"],
    # Past GRUB, whose roots are read-only: this once root a is writable, and there is no state. no_timer_check: as in
    # base/grub.cfg. A seed that was saved as this boot ends would be the same on every appliance.
    ["-kernel", var.kernel],
    ["-initrd", "${var.kernel}.initrd"],
    ["-append", "root=PARTLABEL=strongroom-a rw rootfstype=ext4 strongroom.state=none systemd.gpt_auto=no console=ttyS0,115200 no_timer_check systemd.mask=systemd-random-seed.service"],
  ]
}

build {
  sources = ["source.qemu.appliance"]

  provisioner "ansible" {
    playbook_file = "${path.root}/../ansible/image.yml"
    user          = "root"
    use_proxy     = false
    host_alias    = "image"
    groups        = ["appliance"]
    extra_arguments = [
      "--extra-vars", "image_packages=${var.packages}",
      "--ssh-extra-args", "-o IdentitiesOnly=yes",
    ]
    ansible_env_vars = [
      "ANSIBLE_CONFIG=${path.root}/../ansible/ansible.cfg",
      "ANSIBLE_HOST_KEY_CHECKING=False",
      "ANSIBLE_CACHE_PLUGIN=memory",
      "ANSIBLE_NOCOLOR=1",
      "ANSIBLE_TIMEOUT=300",
    ]
  }
}
