# SPDX-License-Identifier: BSD-2-Clause
# bash completion of perfx-trace, which is asked for the candidates

_perfx_trace() {
	local cur prev words cword split line before lines
	_init_completion -s -n : || return

	before=("${words[@]:1:cword-1}")
	$split && before+=("$prev")
	mapfile -t lines < <("${words[0]}" complete "${before[@]}" "$cur" 2>/dev/null)
	line=${lines[0]-}
	case $line in
	:file) _filedir ;;
	:program*) _command_offset $((${line#:program } + 1)) ;;
	:process) mapfile -t COMPREPLY < <(compgen -W "$(ps -eo pid=,comm=)" -- "$cur") ;;
	*) mapfile -t COMPREPLY < <(compgen -W "${lines[*]%%$'\t'*}" -- "$cur") ;;
	esac
} && complete -F _perfx_trace perfx-trace
