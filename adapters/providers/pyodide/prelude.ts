/** How a sandbox runs commands, in Python: each like a separate program, over files that persist between them. */
export const PRELUDE = `
import builtins, os, platform, runpy, sys, time, types
from json import loads
from traceback import print_exception

HOME = '/home/user'
FOUND_IN = ('/usr/local/bin/', '/usr/bin/', '/bin/')
BARE = {'-u', '-B', '-E', '-I', '-q', '-s', '-S'}
OURS = {'<sandbox>', '<frozen runpy>'}
os.makedirs(HOME, exist_ok=True)
sys.executable = '/usr/bin/python3'
sys.orig_argv = [sys.executable]
environment = dict(os.environ)
path = list(sys.path)
built_in = dict(vars(builtins))

def sleep(seconds, doze=doze, now=time.monotonic):
    # In slices, between which an interruption is heard: Pyodide's own sleep is never woken.
    if seconds < 0:
        raise ValueError('sleep length must be non-negative')
    end = now() + seconds
    while (left := end - now()) > 0:
        doze(min(left, 0.05))

time.sleep = sleep

def no_shell(command):
    raise NotImplementedError('there is no shell here, and no other program')

os.system = os.popen = no_shell

def complain(text, code):
    sys.stderr.write(text + '\\n')
    return code

def in_main(code, argv):
    main = types.ModuleType('__main__')
    sys.modules['__main__'] = main
    sys.argv = argv
    sys.path.insert(0, '')
    exec(code, main.__dict__)
    return 0

def python(words):
    while words and words[0] in BARE:
        words = words[1:]
    if not words or words[0] == '-':
        return complain('python: nobody types here: name a script, or use -c or -m', 2)
    first, rest = words[0], words[1:]
    if first in ('-V', '--version'):
        print('Python', platform.python_version())
        return 0
    if first in ('-c', '-m') and not rest:
        return complain(f'python: argument expected for the {first} option', 2)
    if first == '-c':
        return in_main(compile(rest[0], '<string>', 'exec'), ['-c', *rest[1:]])
    if first == '-m':
        sys.argv = rest
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name='__main__', alter_sys=True)
        return 0
    if first.startswith('-'):
        return complain(f'python: the option {first} is not known here', 2)
    if not os.path.exists(first):
        return complain(f"python: can't open file {first!r}: [Errno 2] No such file or directory", 2)
    sys.argv = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(first)))
    runpy.run_path(first, run_name='__main__')
    return 0

def echo(words):
    is_line = words[:1] != ['-n']
    sys.stdout.write(' '.join(words if is_line else words[1:]) + ('\\n' if is_line else ''))
    return 0

def each(name, words, show):
    code = 0
    for word in words:
        try:
            show(word)
        except OSError as error:
            code = complain(f'{name}: {word}: {error.strerror}', 1)
    return code

def ls(words):
    def show(word):
        names = sorted(os.listdir(word)) if os.path.isdir(word) else [os.stat(word) and word]
        sys.stdout.writelines(name + '\\n' for name in names if not name.startswith('.'))
    return each('ls', words or ['.'], show)

def cat(words):
    def show(word):
        with open(word, 'rb') as file:
            while part := file.read(65536):
                sys.stdout.buffer.write(part)
    return each('cat', words, show)

def pwd(words):
    print(os.getcwd())
    return 0

PROGRAMS = {'python': python, 'python3': python, 'python3.11': python, 'echo': echo, 'ls': ls, 'cat': cat, 'pwd': pwd}

def program(words):
    name = next((words[0][len(folder):] for folder in FOUND_IN if words[0].startswith(folder)), words[0])
    if name in PROGRAMS:
        return PROGRAMS[name](words[1:])
    return complain(f'{words[0]}: command not found; here are python, echo, ls, cat and pwd, and no shell', 127)

def told(error):
    at = error.__traceback__
    while at and at.tb_frame.f_code.co_filename in OURS:
        at = at.tb_next
    print_exception(type(error), error, at)

def code_of(stop):
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xff
    return complain(str(stop.code), 1)

def run(text):
    sys.stdout, sys.stderr = (open(number, 'w', encoding='utf-8', errors='backslashreplace', closefd=False) for number in (1, 2))
    vars(builtins).update(built_in)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(HOME)
    sys.path[:] = path
    for name in [name for name, module in sys.modules.items() if str(getattr(module, '__file__', None)).startswith(('/home/', '/tmp/'))]:
        del sys.modules[name]
    try:
        code = program(loads(text))
    except SystemExit as stop:
        code = code_of(stop)
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:
        told(error)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    return code if type(code) is int else 1

run
`
