#!/bin/sh
# Makes a new server of templates/server, which is built with Longhaul from this checkout.
#
#   scripts/new_server.sh NAME [FOLDER]
#
# NAME is that of the package and of its program. FOLDER must not exist yet (default: NAME, in the current folder).
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
readonly root

fail() {
    printf 'error: %s\n' "$1" >&2
    exit "$2"
}

[ $# -eq 1 ] || [ $# -eq 2 ] || fail 'say what the server is called: scripts/new_server.sh NAME [FOLDER]' 2
name=$1
folder=${2:-$1}
readonly name folder
case $name in
*[!a-z0-9_-]* | [!a-z]* | '')
    fail "\`$name\` cannot be a name: use lower-case letters, digits, - and _, a letter first" 2
    ;;
# What the template itself has.
api | worker | tools | longhaul) fail "the name \`$name\` is taken: choose another one" 2 ;;
esac
[ ! -e "$folder" ] || fail "$folder exists: choose a folder that does not" 1

mkdir -p "$folder"
cp -R "$root/templates/server/." "$folder"
cd "$folder"
# They are for cargo-lambda and cargo-generate.
rm CargoLambda.toml cargo-generate.toml names.rhai
for file in $(grep -rl '{{project_name}}' .); do
    sed "s/{{project_name}}/$name/g" "$file" >"$file.new"
    mv "$file.new" "$file"
done

# The versions of other crates that Longhaul was tested with.
cp "$root/Cargo.lock" Cargo.lock
cat >>Cargo.toml <<END

# Longhaul from a checkout. Remove this to take the published crates.
[patch.crates-io]
longhaul = { path = "$root/crates/longhaul" }
END
# An image is built without the rest of this machine.
sed -e "s|docker build -t|docker build --build-context longhaul=$root -t|" \
    -e "s|^WORKDIR /src\$|COPY --from=longhaul . $root\\
&|" Dockerfile >Dockerfile.new
mv Dockerfile.new Dockerfile

printf '%s is ready. Next:\n\n    cd %s\n    make test\n    make run\n' "$name" "$folder"
