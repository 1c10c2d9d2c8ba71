/** No line that a person pastes runs or installs a package that is not ours to name: `farebox` is nobody's yet. */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { CHECKOUT_COMMAND } from '../server/config/buyer_command.ts'
import { type Snippet, snippetsOf } from '../server/web/pages/lib/snippets.ts'
import programs from './programs/package.json' with { type: 'json' }

const ROOT = join(import.meta.dir, '..')
/** Where a person may read a line to paste. This file has the lines that the law refuses. */
const paths = ['README.md', ...['.github', 'core', 'adapters', 'server', 'test'].flatMap(below)].filter(
  (path) => path !== 'test/package_names_test.ts',
)

function below(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`
    if (entry.name === 'node_modules' || (entry.name.startsWith('.') && entry.name !== '.github')) return []
    if (entry.isDirectory()) return below(path)
    return /\.(tsx?|mjs|md|json|ya?ml|sh|toml)$/.test(entry.name) ? [path] : []
  })
}

const RUNNER = String.raw`\b(?:npx|bunx|pnpx|uvx|pipx|(?:npm|pnpm|yarn|bun) (?:exec|create|dlx|x|i|install|add)|pip3? install)\b`
/** Text that may stand between the runner and the package: options, and the punctuation of JSON and code. */
const BETWEEN = String.raw`(?:[\s"'\`+,:[\]]|-[\w-]+|\bargs\b)*`
const STRANGERS = new RegExp(String.raw`${RUNNER}(${BETWEEN})farebox\b(?![./-])`, 'g')
const INSTALL = /\b(?:(?:npm|bun|pnpm|yarn) (?:install|add|i)|pip3? install|npx -y) ((?:[\w@"$-][^\s`'\\;)]*[ \t]*)+)/g

/** Packages of other people that we depend on, or whose clients a page shows. */
const PACKAGES: ReadonlySet<string> = new Set([
  ...[manifest.dependencies, manifest.optionalDependencies, manifest.devDependencies].flatMap(Object.keys),
  ...Object.keys(programs.devDependencies),
  'bun',
  'better-sqlite3',
  // Python's.
  'x402',
  'eth_account',
  'requests',
])

/** Lines that would run a package called farebox; with --no-install it is the installed one. */
const strangersIn = (text: string): string[] =>
  [...text.matchAll(STRANGERS)].filter(([, between]) => !between?.includes('--no-install')).map(([line]) => line)

/** Names of what the lines of a text install or run. */
function installedIn(text: string): string[] {
  return [...text.matchAll(INSTALL)].flatMap(([line, words = '']) => {
    const named: string[] = []
    for (const word of words.trim().split(/[ \t]+/)) {
      const name = word
        .replaceAll(/[",]/g, '')
        .replace(/\[.*$/, '')
        .replace(/(?<=.)@.*$/, '')
      // A path, an option and its value, or a variable of the code.
      if (word.startsWith('--cwd')) break
      if (/^(-|\$|PATH\b)/.test(word) || name === '') continue
      named.push(name)
      // Code or prose follows.
      if (line.startsWith('npx') || word.endsWith(',')) break
    }
    return named
  })
}

describe('no package name that is not ours', () => {
  test('the law finds the lines that it is for', () => {
    const bad = [
      'npx farebox buy chat',
      'npx -y farebox@latest mcp',
      '"command": "npx",\n      "args": ["farebox", "mcp"]',
      'npm install farebox --omit=optional',
      "['npx', '-y', 'farebox']",
      'bunx farebox',
    ]
    expect(bad.flatMap(strangersIn).length).toBe(bad.length)
    const good = [
      CHECKOUT_COMMAND,
      './node_modules/.bin/farebox',
      'npm install PATH/dist',
      "['npx', '--no-install', 'farebox']",
      '"command": "farebox", "args": ["mcp"]',
    ]
    expect(good.flatMap(strangersIn)).toEqual([])
    expect(installedIn('npm install openai @x402/fetch@2 "x402[evm]" ${name}')).toEqual([
      'openai',
      '@x402/fetch',
      'x402',
    ])
    expect(installedIn('npx -y bun@1.4.4 run farebox')).toEqual(['bun'])
  })

  test('no page, guide, message or source runs or installs a package called farebox', () => {
    const found = paths.flatMap((path) =>
      strangersIn(readFileSync(join(ROOT, path), 'utf8')).map((line) => `${path}: ${line}`),
    )
    expect(paths.length).toBeGreaterThan(1_000)
    expect(found).toEqual([])
  })

  test('what guides and pages install is a package that we depend on', () => {
    const read = paths.filter((path) => path.endsWith('.md') || /^(core|adapters|server)\//.test(path))
    const found = read.flatMap((path) =>
      installedIn(readFileSync(join(ROOT, path), 'utf8'))
        .filter((name) => !PACKAGES.has(name))
        .map((name) => `${path}: ${name}`),
    )
    expect(found).toEqual([])
  })

  test('the code on the pages starts the command as the setting says', () => {
    const orders = ['/api/v1/chat/completions', '/api/v1/images/generations'].map((path) => ({
      path,
      body: { model: 'vendor-a/one', prompt: 'a fox', messages: [{ role: 'user', content: 'a fox' }] },
    }))
    for (const command of [CHECKOUT_COMMAND, '/opt/farebox/farebox'])
      for (const network of ['base', 'solana']) {
        const listed: readonly Snippet[] = orders.flatMap((order) =>
          snippetsOf(order, { origin: 'https://ai.example.com', network, command }),
        )
        for (const [, code] of listed) {
          expect(strangersIn(code)).toEqual([])
          expect(installedIn(code).filter((name) => !PACKAGES.has(name))).toEqual([])
        }
        const [program] = command.split(' ')
        const mcp = JSON.parse(listed.find(([name]) => name === 'MCP')?.[1] ?? '').mcpServers.farebox
        expect(mcp.command).toBe(program)
        expect(mcp.args.slice(-3)).toEqual(['mcp', '--url', 'https://ai.example.com'])
        expect(listed.find(([name]) => name === 'farebox buy')?.[1]).toStartWith(`${command} buy chat `)
      }
  })
})
