#!/bin/sh
# Slurm's Epilog that removes the folders of caches with the policy `job` when their job has left the node (docs/administrator/caches.md).
#   slurm.conf: Epilog=/etc/slurm/epilog.d/*, and this file there, root's, with mode 755
# By hand, which tells why it leaves something: SLURM_JOB_ID=7 SLURM_JOB_UID=1000 SLURM_JOB_USER=me rollcall-epilog.sh remove
#
# It runs as root on what a user controls. So root only enters the user's folder and looks where it then is: no link and nothing that is
# exchanged meanwhile leads elsewhere. What looks into the folder is rm, with the user's rights and no capability; its real user stays root,
# so that no process of the user can trace it and go on in slurmd's cgroup. It ends with 0, and soon: all else would drain the node.

profile=/etc/rollcall/site.toml  # whose cache.local counts; the one variable in it may be ${USER}

PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset CDPATH

if [ "${1:-}" != remove ]; then
  timeout --kill-after=5 30 "$0" remove < /dev/null > /dev/null 2>&1 &
  # A call into a file system of the user's own (FUSE) may outlast KILL, and timeout(1) waits for it: not this.
  looks=360
  while [ "$looks" -gt 0 ] && kill -0 "$!" 2> /dev/null; do
    sleep 0.1
    looks=$((looks - 1))
  done
  exit 0
fi

leave() { echo "rollcall-epilog: $1" >&2; exit 0; }

number() { case $1 in ''|*[!0-9]*) leave "$2: '$1': must be a number" ;; esac }

number "${SLURM_JOB_ID:-}" SLURM_JOB_ID
number "${SLURM_JOB_UID:-}" SLURM_JOB_UID
case ${SLURM_JOB_USER:-} in ''|.|..|*/*) leave "SLURM_JOB_USER: '${SLURM_JOB_USER:-}': is not a user name" ;; esac

folder=$(awk -F "[\"']" '/^[ \t]*\[/ { section = $1 } section ~ /\[cache\]/ && /^[ \t]*local[ \t]*=/ { print $2; exit }' "$profile")
here() { readlink /proc/self/cwd; }

# What has a user's name in its path may be others' making, from that name on; above it, it is the site's.
# shellcheck disable=SC2016  # as it stands in the profile
variable='${USER}'
before=${folder%%"$variable"*}
above=${before%/*}
[ "$before" = "$folder" ] || folder=$before$SLURM_JOB_USER${folder#*"$variable"}
case $folder in
  *'$'*) leave "cache.local of $profile: $folder: must name no variable but $variable" ;;
  /*/*) ;;
  *) leave "cache.local of $profile: '$folder': must be an absolute path below the root" ;;
esac

cd -P -- "$above/" 2> /dev/null || leave "$above/: does not exist"
above_is=$(here)
cd -P -- "$folder" 2> /dev/null || leave "$folder: does not exist"
[ "$(here)" = "${above_is%/}/${folder#"$above"/}" ] || leave "$folder: is a symbolic link, or below one"
[ "$(stat -c %u .)" = "$SLURM_JOB_UID" ] || leave "$folder: belongs to another user"
exec setpriv --euid="$SLURM_JOB_UID" --egid=65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
  rm -rf --one-file-system -- "./job-$SLURM_JOB_ID"
