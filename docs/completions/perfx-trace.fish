# SPDX-License-Identifier: BSD-2-Clause
# fish completion of perfx-trace

set -l verbs record report run probes doctor help

complete -c perfx-trace -f
complete -c perfx-trace -n "not __fish_seen_subcommand_from $verbs" -a record -d 'Keep the capture'
complete -c perfx-trace -n "not __fish_seen_subcommand_from $verbs" -a report -d 'Report from a capture'
complete -c perfx-trace -n "not __fish_seen_subcommand_from $verbs" -a run -d 'Start a program and trace it'
complete -c perfx-trace -n "not __fish_seen_subcommand_from $verbs" -a probes -d 'What would be attached'
complete -c perfx-trace -n "not __fish_seen_subcommand_from $verbs" -a doctor -d 'What works here'
complete -c perfx-trace -n "not __fish_seen_subcommand_from $verbs" -a help -d 'The options in short'
complete -c perfx-trace -n '__fish_seen_subcommand_from report' -a '(__fish_complete_suffix .perfx)'
complete -c perfx-trace -n '__fish_seen_subcommand_from run' -a '(__fish_complete_subcommand)'

complete -c perfx-trace -s p -l pid -x -a '(__fish_complete_pids)' -d 'Process, by id or name'
complete -c perfx-trace -s a -l all -d 'Every process that maps an ML library'
complete -c perfx-trace -s F -l functions -x -d 'Functions: MODULE:GLOB'
complete -c perfx-trace -l memory -x -a 'off tensor all sampled sampled=512K' -d 'Allocations'
complete -c perfx-trace -l no-children -d 'Not the children'
complete -c perfx-trace -l user -d 'run: as the user who called sudo'
complete -c perfx-trace -s d -l duration -x -d 'How long: 10, 500ms, 2m'
complete -c perfx-trace -s o -l output -r -F -d 'Report or capture'
complete -c perfx-trace -s f -l format -x -a 'text md json' -d 'Format of the report'
complete -c perfx-trace -l capture -r -F -d 'Keep the capture beside the report'
complete -c perfx-trace -l max-size -x -d 'Size of the capture at which the recording ends'
complete -c perfx-trace -l top -x -d 'Rows a table'
complete -c perfx-trace -l cmdline -x -a 'hidden full' -d 'Command lines with secrets'
complete -c perfx-trace -l link -x -a 'session multi perf' -d 'Kind of uprobe link'
complete -c perfx-trace -l return -x -a 'auto exit probe' -d 'How calls are timed'
complete -c perfx-trace -l probe-site -x -a 'auto entry' -d 'Where probes are put'
complete -c perfx-trace -l compensate -d 'Take the probes\' cost off nested times'
complete -c perfx-trace -l no-calibrate -d 'Do not measure what a hit costs'
complete -c perfx-trace -l ring-size -x -d 'Ring buffer: 8M'
complete -c perfx-trace -l interval -x -d 'Between samples of /proc: 250ms'
complete -c perfx-trace -l max-functions -x -d 'Refuse patterns that match more'
complete -c perfx-trace -s h -l help -d 'The options in short'
complete -c perfx-trace -s V -l version -d 'The version'
