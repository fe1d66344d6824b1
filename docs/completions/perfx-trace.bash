# SPDX-License-Identifier: BSD-2-Clause
# bash completion of perfx-trace

_perfx_trace() {
	local cur prev words cword split
	_init_completion -s -n : || return

	case $prev in
	-p | --pid)
		mapfile -t COMPREPLY < <(compgen -W "$(ps -eo pid=,comm= | awk '{print $1; print $2}')" -- "$cur")
		return
		;;
	--trigger)
		mapfile -t COMPREPLY < <(compgen -W "'step>2x' 'step>250ms'" -- "$cur")
		return
		;;
	-o | --output | --capture | --template)
		_filedir
		return
		;;
	-f | --format)
		if [[ ${words[1]} == export ]]; then
			mapfile -t COMPREPLY < <(compgen -W 'perfetto chrome pprof folded speedscope openmetrics' -- "$cur")
		else
			mapfile -t COMPREPLY < <(compgen -W 'text md html json csv tsv line' -- "$cur")
		fi
		return
		;;
	--link)
		mapfile -t COMPREPLY < <(compgen -W 'session multi perf' -- "$cur")
		return
		;;
	--return)
		mapfile -t COMPREPLY < <(compgen -W 'auto exit probe' -- "$cur")
		return
		;;
	--probe-site)
		mapfile -t COMPREPLY < <(compgen -W 'auto entry' -- "$cur")
		return
		;;
	--memory)
		mapfile -t COMPREPLY < <(compgen -W 'off tensor all sampled sampled=' -- "$cur")
		return
		;;
	--flops)
		mapfile -t COMPREPLY < <(compgen -W 'on off' -- "$cur")
		return
		;;
	--host-level)
		mapfile -t COMPREPLY < <(compgen -W '0 1 2 3' -- "$cur")
		return
		;;
	--python-level)
		mapfile -t COMPREPLY < <(compgen -W '0 1' -- "$cur")
		return
		;;
	--counters)
		mapfile -t COMPREPLY < <(compgen -W 'on off cycles instructions flops llc-misses task-clock page-faults context-switches cpu-migrations' -- "$cur")
		return
		;;
	--cmdline)
		mapfile -t COMPREPLY < <(compgen -W 'hidden full' -- "$cur")
		return
		;;
	--sort)
		mapfile -t COMPREPLY < <(compgen -W 'name calls self_ns total_ns avg_ns p50_ns p95_ns p99_ns max_ns' -- "$cur")
		return
		;;
	--table)
		mapfile -t COMPREPLY < <(compgen -W 'functions callers threads steps memory hotspots findings processes' -- "$cur")
		return
		;;
	-F | --functions | -d | --duration | --top | --process | --ring-size | --rings | --interval | --max-functions | --peak-flops | --peak-bandwidth | --max-size | --fail-on | --usdt | --step-range | --steps | --ring | --since | --until)
		return
		;;
	esac
	$split && return

	if [[ ${words[1]} == run ]]; then
		local i
		for ((i = 2; i < cword; i++)); do
			if [[ ${words[i]} == -- ]]; then
				_command_offset $((i + 1))
				return
			fi
		done
	fi
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W '
			-p --pid -a --all -F --functions --memory --no-children --as-root
			--flops --flops-rules --counters --host-level --python-level --usdt --step-range --steps --wait
			-d --duration -o --output -f --format --capture --max-size --ring --trigger --since --until --full --top --cmdline
			--sort --process --table --template --no-header --fail-on
			--link --return --probe-site --compensate --no-calibrate
			--peak-flops --peak-bandwidth --no-peaks
			--ring-size --rings --interval --max-functions
			-v --verbose -h --help -V --version' -- "$cur")
	elif [[ $cword == 1 ]]; then
		mapfile -t COMPREPLY < <(compgen -W 'record report export diff run probes peaks doctor help' -- "$cur")
	elif [[ ${words[1]} == report || ${words[1]} == export || ${words[1]} == diff ]]; then
		_filedir perfx
	fi
} && complete -F _perfx_trace perfx-trace
