# SPDX-License-Identifier: BSD-2-Clause
# fish completion of perfx-trace, which is asked for the candidates

function __perfx_trace_complete
    set -l words (commandline -opc)
    set -l lines ($words[1] complete $words[2..-1] (commandline -ct) 2>/dev/null)
    switch "$lines[1]"
        case :file
            __fish_complete_path (commandline -ct)
        case :process
            __fish_complete_pids
        case ':program*'
            set -l first (math 2 + (string split ' ' $lines[1])[2])
            complete -C (string join ' ' -- $words[$first..-1] (commandline -ct))
        case '*'
            printf '%s\n' $lines
    end
end

complete -c perfx-trace -f -a '(__perfx_trace_complete)'
