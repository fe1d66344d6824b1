# SPDX-License-Identifier: BSD-2-Clause
# bash completion of perfx-trace; the program itself lists the candidates. It needs only bash, because a
# machine may lack the package bash-completion.

# Sets words as the program would get them; those of bash are also split at = and :.
_perfx_trace_words() {
	local line=${COMP_LINE:0:COMP_POINT}

	# shellcheck disable=SC2162 # backslashes quote
	read -a words <<<"$line"
	[[ $line == *[[:space:]] && $line != *'\ ' ]] && words+=("")
	words[-1]=${words[-1]#[\"\']}
}

_perfx_trace_files() {
	local IFS=$'\n'

	compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# Completes the command line of another program, as after sudo.
_perfx_trace_program() {
	local first=$1

	if declare -F _command_offset >/dev/null; then
		_command_offset "$first"
	elif ((${#words[@]} - 1 == first)); then
		mapfile -t COMPREPLY < <(compgen -c -- "${words[first]}")
	else
		_perfx_trace_files "${words[-1]}"
	fi
}

_perfx_trace() {
	local words cur line lines split

	_perfx_trace_words
	cur=${words[-1]}
	if [[ $cur == --*=* ]]; then # --option=value
		words=("${words[@]::${#words[@]}-1}" "${cur%%=*}" "${cur#*=}")
		cur=${words[-1]}
	fi
	mapfile -t lines < <("${words[0]}" complete "${words[@]:1}" 2>/dev/null)
	line=${lines[0]-}
	case $line in
	:file) _perfx_trace_files "$cur" ;;
	:program*) _perfx_trace_program $((${line#:program } + 1)) ;;
	:process) mapfile -t COMPREPLY < <(compgen -W "$(ps --ppid 2 -p 2 --deselect -o pid=,comm=)" -- "$cur") ;;
	*) mapfile -t COMPREPLY < <(compgen -W "${lines[*]%%$'\t'*}" -- "$cur") ;;
	esac
	# bash replaces only the text after the last colon
	if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
		split=${cur%"${cur##*:}"}
		COMPREPLY=("${COMPREPLY[@]#"$split"}")
	fi
} && complete -F _perfx_trace perfx-trace
