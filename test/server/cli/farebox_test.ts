/** The command `farebox` in process: help, version, misspelt names, and exit codes. */
import { expect, test } from 'bun:test'
import manifest from '../../../package.json' with { type: 'json' }
import { guides } from '../../../server/docs/guides.ts'
import { runCommand } from './command_kit.ts'

const COMMANDS = (await runCommand(['--help'])).out
  .split('Commands:\n')[1]
  ?.split('\n\n')[0]
  ?.split('\n')
  .map((line) => line.trim().split(' ')[0] ?? '') as string[]

test('--version prints the version', async () => {
  expect(await runCommand(['--version'])).toEqual({ code: 0, out: `${manifest.version}\n`, err: '' })
})

test('--help lists every command, and each has help with its usage and examples on standard output', async () => {
  expect(COMMANDS).toContain('start')
  for (const name of COMMANDS) {
    const { code, out, err } = await runCommand([name, '--help'])
    expect({ name, code, err }).toEqual({ name, code: 0, err: '' })
    expect(out).toContain(`\nUsage: farebox ${name}`)
    expect(out).toContain(`\nExamples:\n  farebox ${name}`)
    expect(out.split('\n').filter((line) => line.length > 120)).toEqual([])
    expect(await runCommand(['help', name])).toEqual({ code, out, err })
  }
})

test('the guide Operations lists every command, and the guide Quickstart every option of buy', async () => {
  const table = (guides.operations ?? '').split('### Commands')[1]?.split('\n### ')[0] ?? ''
  expect(
    COMMANDS.filter((name) => !table.includes(`| \`farebox ${name}\``) && !table.includes(`, \`farebox ${name}\``)),
  ).toEqual([])
  const { out } = await runCommand(['buy', '--help'])
  const options = [...out.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, name = '']) => name)
  const rows = (guides.quickstart ?? '').split('\n').filter((line) => line.startsWith('| `--'))
  expect(options.filter((name) => !rows.some((row) => row.includes(`\`${name}\``)))).toEqual([])
})

test('a misspelt command or option is named with the nearest one, and the exit code is 2', async () => {
  expect(await runCommand(['strat'])).toEqual({
    code: 2,
    out: '',
    err: 'farebox: there is no command strat; did you mean start?\nRun farebox --help for a list of commands.\n',
  })
  expect((await runCommand(['quux'])).err).toStartWith('farebox: there is no command quux\n')
  expect(await runCommand(['buy', 'chat', 'Hello', '--max-prise', '1'])).toEqual({
    code: 2,
    out: '',
    err: 'farebox buy: there is no option --max-prise; did you mean --max-price?\nRun farebox buy --help for its options and examples.\n',
  })
})

test('every command refuses an option that it does not have', async () => {
  for (const name of COMMANDS) {
    const { code, err } = await runCommand([name, '--no-such-option'])
    expect({ name, code, err }).toEqual({
      name,
      code: 2,
      err: expect.stringContaining('there is no option --no-such-option'),
    })
  }
})

test('without a command, or with options alone, the gateway starts; options override the environment', async () => {
  const served: unknown[] = []
  const env = { PORT: '1', HOST: '0.0.0.0' }
  const serve = async (given: object, options?: object) => void served.push([given, options])
  for (const args of [[], ['start', '--port', '2'], ['--config', 'x.toml'], ['devnet']])
    expect(await runCommand(args, { env, serve })).toEqual({ code: undefined, out: '', err: '' })
  expect(served).toEqual([
    [env, undefined],
    [{ ...env, PORT: '2' }, undefined],
    [{ ...env, FAREBOX_CONFIG: 'x.toml' }, undefined],
    [env, { isDevnet: true }],
  ])
})
