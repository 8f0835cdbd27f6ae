#!/usr/bin/env bash
# Make a stand-in of Grafana in FOLDER: grafana.deb, grafana.tar.gz and the apt repository apt/. Needs dpkg-deb and gpg.
#
# There is no Grafana that a test could install. The stand-in has the layout, the user and the unit of Grafana's own
# package and archive, and its program (grafana.py) uses what the role gives it.
set -euo pipefail

folder=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rm -rf "$folder"
mkdir -p "$folder/packages"

archive=$folder/archive/grafana-v0
install -D -m 0755 "$here/grafana.py" "$archive/bin/grafana"
install -D -m 0644 /dev/null "$archive/conf/defaults.ini"
tar -C "$folder/archive" -czf "$folder/grafana.tar.gz" grafana-v0

package=$folder/package
install -D -m 0755 "$here/grafana.py" "$package/usr/share/grafana/bin/grafana"
install -D -m 0644 /dev/null "$package/usr/share/grafana/conf/defaults.ini"
install -d "$package/DEBIAN" "$package/usr/lib/systemd/system"
cat > "$package/usr/lib/systemd/system/grafana-server.service" << 'END'
[Service]
User=grafana
Group=grafana
WorkingDirectory=/usr/share/grafana
ExecStart=/usr/share/grafana/bin/grafana server --config=/etc/grafana/grafana.ini cfg:default.paths.provisioning=/etc/grafana/provisioning
Restart=on-failure

[Install]
WantedBy=multi-user.target
END
cat > "$package/DEBIAN/control" << 'END'
Package: grafana
Version: 0
Architecture: ARCHITECTURE
Maintainer: Nobody <nobody@example.org>
Depends: python3
Description: stand-in of Grafana for a test
END
sed -i "s/ARCHITECTURE/$(dpkg --print-architecture)/" "$package/DEBIAN/control"
cat > "$package/DEBIAN/postinst" << 'END'
#!/bin/sh
set -e
id grafana > /dev/null 2>&1 || useradd --system --home-dir /usr/share/grafana --shell /bin/false grafana
install -d -m 0755 /etc/grafana /etc/grafana/provisioning
[ -e /etc/grafana/grafana.ini ] || install -m 0640 -g grafana /dev/null /etc/grafana/grafana.ini
END
chmod 0755 "$package/DEBIAN/postinst"
dpkg-deb --root-owner-group --build "$package" "$folder/packages/grafana_0.deb" > /dev/null
cp "$folder/packages/grafana_0.deb" "$folder/grafana.deb"

"$here/../../../appliance/packages/apt_repository.py" "$folder/apt" "stable=$folder/packages" --time 1 --key-folder "$folder/key" > /dev/null
