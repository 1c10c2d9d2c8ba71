/**
 * Programs that have only the text of /llms-full.txt buy by it: its Python, its shell lines with the real `cast`. A
 * stand-in from Python's standard library takes the place of eth_account, which no registry here has.
 */
import { beforeAll, describe, expect, test } from 'bun:test'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PROGRAMS } from '../../programs/mod.ts'
import { gatewayProcesses } from '../gateway_process.ts'

const python = Bun.which('python3')
const shell = ['bash', 'jq', 'curl', 'openssl'].every((name) => Bun.which(name) !== null)
const CAST = join(dirname(fileURLToPath(PROGRAMS)), 'node_modules/.bin')
const STAND_INS = join(import.meta.dirname, 'stand_ins')

const processes = gatewayProcesses()
let origin: string
let guide: string
let key: string

beforeAll(async () => {
  origin = await processes.start(processes.dir()).url
  const { buyer } = (await (await fetch(`${origin}/devnet`)).json()) as {
    readonly buyer: { readonly private_key: string }
  }
  key = buyer.private_key
  const demand = await fetch(`${origin}/api/v1/chat/completions`, { method: 'POST' })
  const { help } = (await demand.json()) as { readonly help: { readonly llms: string } }
  guide = await (await fetch(help.llms)).text()
})

/** The code of the text in a language, with the model that is bought in place of the word that stands for it. */
const codeIn = (language: string): string =>
  new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(guide)?.[1]?.replaceAll('MODEL', 'farebox/echo') ?? ''

async function output(command: readonly string[], env: Readonly<Record<string, string>>): Promise<string> {
  const child = Bun.spawn([...command], {
    env: { PATH: `${CAST}:${process.env.PATH}`, WALLET_KEY: key, PYTHONDONTWRITEBYTECODE: '1', ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  if (code !== 0) throw new Error(err)
  return out
}

describe('how to sign, as the text says it', () => {
  test('the address and both ways are in the text that the 402 links to, at this origin (contract 19.21)', () => {
    expect(guide).toContain('\n## How to sign\n')
    expect(guide).toContain(`${origin}/api/v1/chat/completions`)
    expect(guide).not.toContain('ai.example.com')
    expect(codeIn('python').trimEnd().split('\n').length).toBeLessThanOrEqual(25)
  })

  test.skipIf(python === null)(
    'its Python buys a chat, with a stand-in for eth_account (skipped where there is no python3)',
    async () => {
      const out = await output(['python3', '-c', codeIn('python')], { PYTHONPATH: STAND_INS })
      expect(out).toContain(`You said: "Hello"`)
    },
  )

  test.skipIf(!shell)(
    'its shell lines buy a chat, with cast of Foundry (skipped without jq, curl and openssl)',
    async () => {
      const out = await output(['bash', '-c', codeIn('sh')], {})
      expect(out).toStartWith('HTTP/1.1 200 ')
      expect(out).toMatch(/^payment-response: /im)
      expect(out).toContain(String.raw`You said: \"Hello\"`)
    },
  )
})
