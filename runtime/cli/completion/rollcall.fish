# Completion of rollcall and its programs in fish. No program is started: the options are in the table below.
# Made by CMake from runtime/cli/completion. A row: PAGE|WORD|VALUES|CLAUSE (runtime/command_line/help.h).
set -l rows (string split \n -- '@ROLLCALL_COMPLETION_TABLE@')
set -g __rollcall_pages

# Whether the words before the cursor are of one of these pages.
function __rollcall_in
    set -l words (commandline -opc)
    set words[1] (string replace -r '.*/' '' -- $words[1])
    # `rollcall train` is rollcall-train.
    if test "$words[1]" = rollcall; and contains -- "rollcall-$words[2]" $__rollcall_pages
        set words "rollcall-$words[2]" $words[3..-1]
    end
    set -l page $words[1]
    if contains -- "$page help" $__rollcall_pages; and string match -qr '^[^-]' -- "$words[2]" # one with commands
        set page "$page $words[2]"
    end
    contains -- $page $argv
end

set -l page
set -l complete
for row in $rows
    set -l cells (string split -m 3 '|' -- $row)
    if test "$cells[1]" != "$page"
        set page $cells[1]
        set -a __rollcall_pages $page
        set -l including (string replace -rf "^([^|]+)\|\+$page\|.*" '$1' -- $rows)
        set complete complete -c(string split ' ' -- 'rollcall @ROLLCALL_PROGRAMS@') -n "__rollcall_in $(string escape -- $page $including | string join ' ')"
    end
    set -l option $complete -d "$cells[4]"
    switch "$cells[2]"
        case '+*' ''
        case '--*=' # with names of files if "/" is among the values
            set -l files -x
            string match -q '*/*' -- $cells[3]; and set files -r
            $option $files -l (string trim -c '-=' -- $cells[2]) -a (string replace / '' -- $cells[3])
        case '--*'
            $option -f -l (string sub -s 3 -- $cells[2]) -a "$cells[3]"
        case '*'
            $option -f -a $cells[2]
    end
end
complete -c rollcall -n "__rollcall_in 'rollcall exec'" -x -a '(__fish_complete_subcommand --fcs-skip=2)'
