#!/usr/bin/env bash
# Runs inside the host: on_host.sh SUITE
set -euo pipefail
export HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
trap 'echo "FAILED in line $LINENO: $BASH_COMMAND"' ERR

suite=$1
release=/root/release
apt=(apt-get -y -q -o Dpkg::Use-Pty=0 -o Acquire::Languages=none)

step() { printf -- '--- %s (%s s)\n' "$*" "$SECONDS"; }
fail() {
    printf 'FAILED: %s\n' "$*"
    journalctl --no-pager -n 60 -u 'strongroom*'
    exit 1
}
# A backup and a restore with the program that is given, as anyone who runs this.
back_up_and_restore() {
    local folder
    folder=$(mktemp -d)
    export STRONGROOM_REPOSITORY=$folder/repository STRONGROOM_PASSWORD="a long passphrase"
    "$@" self-test > /dev/null
    "$@" version | head -2
    "$@" init > /dev/null
    cp -r /usr/share/zoneinfo "$folder/data"
    "$@" backup "$folder/data"
    "$@" restore "latest:$folder/data" --target "$folder/back"
    diff --recursive --no-dereference "$folder/data" "$folder/back"
    rm -rf "$folder"
}

ip link set lo up
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
cd "$release"
python3 --version

step "the folder is what was signed"
ssh-keygen -Y verify -f signer -I strongroom-release -n strongroom-release -s SHA256SUMS.sig < SHA256SUMS &&
    sha256sum --check --strict --quiet SHA256SUMS

step "strongroom.pyz, for root and for a user"
back_up_and_restore ./strongroom.pyz
useradd --create-home ann
cp strongroom.pyz /home/ann/
export -f back_up_and_restore
su --shell /bin/bash ann -c 'cd; set -e; back_up_and_restore ./strongroom.pyz'
[ -d /home/ann/.cache/strongroom-pyz ] || fail "it unpacked itself somewhere else"

step "strongroom.pyz --install-agent: the units of the packages"
./strongroom.pyz --install-agent | grep -q '"changed": true' || fail "it changed nothing"
./strongroom.pyz --install-agent | grep -q '"changed": false' || fail "the second time changed something"
systemctl is-enabled --quiet strongroom-agent || fail "the agent would not start at boot"
[ -z "$(systemctl list-units --failed --quiet --no-legend 'strongroom*')" ] || fail "a unit has failed"
back_up_and_restore strongroom
./strongroom.pyz --remove-agent
[ -z "$(find /opt/strongroom /usr/lib/systemd/system /usr/libexec /usr/bin -name '*strongroom*' 2> /dev/null)" ] ||
    fail "something is left"

step "pip"
python3 -m venv /srv/environment
/srv/environment/bin/pip install --quiet --disable-pip-version-check --no-index --find-links wheels "$(ls wheels/strongroom-0*.whl)[director]"
back_up_and_restore /srv/environment/bin/strongroom

step "pipx"
PIP_NO_INDEX=1 PIP_FIND_LINKS=$release/wheels pipx install "$(ls -d $release/wheels/strongroom-0*.whl)"
back_up_and_restore /root/.local/bin/strongroom
rm -rf /root/.local

step "apt"
install -D -m 0644 apt/strongroom.asc /etc/apt/keyrings/strongroom.asc
cat > /etc/apt/sources.list.d/strongroom.sources << END
Types: deb
URIs: file:$release/apt
Suites: $suite
Components: main
Signed-By: /etc/apt/keyrings/strongroom.asc
END
"${apt[@]}" -o APT::Update::Error-Mode=any update
"${apt[@]}" install strongroom-agent
back_up_and_restore strongroom
"${apt[@]}" purge 'strongroom*'
rm /etc/apt/sources.list.d/strongroom.sources /etc/apt/keyrings/strongroom.asc

step "the collection makes an appliance and a client of this host, and backs it up"
ansible-galaxy collection install --offline strongroom-backup-*.tar.gz
mkdir -p /root/fleet/group_vars
cat > /root/fleet/hosts.yml << 'END'
all:
  vars:
    ansible_connection: local
    ansible_python_interpreter: /usr/bin/python3
    strongroom_appliance_packages: /root/release/apt
    strongroom_engine_repository_key: /root/release/apt/strongroom.asc
  children:
    appliance:
      hosts:
        vault:
          strongroom_appliance_address: vault.example.org
          strongroom_retention: [{name: Usual, daily: 14}]
          strongroom_groups: [{name: servers, schedule: Nightly, retention: Usual}]
    agents:
      hosts:
        web1:
          strongroom_agent_group: servers
          strongroom_files: [/usr/share/zoneinfo]
END
cd /root/fleet
for playbook in appliance agents; do
    ansible-playbook -i hosts.yml strongroom.backup.$playbook
done
strongroom run web1 --watch
strongroom restore latest --host web1 --client web1 --target /srv/back
diff --recursive --no-dereference /usr/share/zoneinfo /srv/back/usr/share/zoneinfo
step "all steps were right"
