/** `farebox publish` before gateways that indexers would list, and before some that they would not. */
import { afterAll, describe, expect, test } from 'bun:test'
import { audit, type Ask } from '../../../server/cli/publish/audit.ts'
import { listings } from '../../../server/cli/publish/lists.ts'
import { devnetGateway, oneVendorGateway } from '../advertised.ts'
import { runCommand } from './command_kit.ts'

const ORIGIN = 'https://ai.example.com'
const { gateway } = oneVendorGateway()

/** As a client over HTTP sees it. */
const asking =
  (change: (response: Response) => Response = (response) => response): Ask =>
  async (url, method = 'GET') => {
    const reply = await gateway.fetch(new Request(url, { method }), { origin: ORIGIN, isHostTrusted: true })
    const response = change(reply)
    return { status: response.status, headers: response.headers, body: await response.text() }
  }

const devnet = devnetGateway()
let callers = 0
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: (request) => devnet.gateway.fetch(request, { ip: `192.0.2.${callers++ % 250}` }),
})
afterAll(() => server.stop(true))

const wrongIn = (found: Awaited<ReturnType<typeof audit>>) => found.findings.filter(({ level }) => level === 'wrong')

describe('farebox publish', () => {
  test('finds nothing wrong at a gateway, and says what to do for each list (contract 19.16)', async () => {
    const found = await audit(ORIGIN, asking())
    expect(wrongIn(found)).toEqual([])
    expect(found.paid).toBeGreaterThan(3)
    const lists = listings(
      { ...found, networks: ['eip155:8453'] },
      { origin: ORIGIN, version: '1.0.0', command: 'farebox' },
    )
    expect(lists.map(({ name, blocked }) => [name, blocked])).toEqual([
      ['Coinbase Bazaar', []],
      ['x402scan, agentcash', []],
      ['MPP services', []],
      ['MCP Registry', []],
    ])
    const [bazaar, scan, , registry] = lists
    expect(bazaar?.steps.join('\n')).toContain(`farebox buy chat "Hello" --url ${ORIGIN}`)
    expect(scan?.steps.join('\n')).toContain(`Enter ${ORIGIN} at`)
    const file = JSON.parse(registry?.steps.find((step) => step.startsWith('{')) ?? '')
    expect(file).toMatchObject({ name: 'com.example.ai/farebox', remotes: [{ url: `${ORIGIN}/mcp` }] })
  })

  test('names the routes whose PAYMENT-REQUIRED an indexer cannot use', async () => {
    const withDemand = (edit: (demand: any) => void) =>
      asking((response) => {
        const given = response.headers.get('payment-required')
        if (given === null) return response
        const demand = JSON.parse(atob(given))
        edit(demand)
        const headers = new Headers(response.headers)
        headers.set('payment-required', btoa(JSON.stringify(demand)))
        return new Response(response.body, { status: response.status, headers })
      })
    const cases: readonly [edit: (demand: any) => void, message: RegExp][] = [
      [(demand) => delete demand.extensions.bazaar.schema.properties.input, /no input in extensions.bazaar.schema/],
      [(demand) => delete demand.extensions.bazaar.schema.properties.output, /no output in extensions.bazaar.schema/],
      [(demand) => delete demand.extensions.bazaar, /no input/],
      [(demand) => (demand.x402Version = 1), /x402Version must be 2/],
      [(demand) => (demand.accepts = []), /accepts is empty/],
      [(demand) => (demand.accepts[0].network = 'base'), /must be CAIP-2, got "base"/],
      [(demand) => (demand.accepts[0].amount = 5), /lacks a member/],
      [(demand) => delete demand.resource, /resource.url is missing/],
      [(demand) => (demand.more = 'x'.repeat(4_000)), /longer than 4096 bytes/],
    ]
    for (const [edit, message] of cases) {
      const [first] = wrongIn(await audit(ORIGIN, withDemand(edit)))
      expect(first?.message).toMatch(message)
      expect(first?.subject).toMatch(/^(GET|POST) \/.+ and \d+ more$/)
    }
  })

  test('says what is in the way of each list: a missing document, test money, a local name', async () => {
    const missing = await audit(ORIGIN, async () => ({ status: 404, headers: new Headers(), body: '' }))
    expect(wrongIn(missing)).toMatchObject([{ subject: 'openapi.json' }])
    const local = listings(await audit(ORIGIN, asking()), {
      origin: 'http://127.0.0.1:4020',
      version: '1',
      command: 'farebox',
    })
    const [bazaar] = local
    expect(bazaar?.blocked).toEqual([
      'http://127.0.0.1:4020 is no https origin with a public name',
      'it is paid in test money alone (eip155:84532)',
    ])
  })

  test('prints the findings and the lists, with exit code 0 where nothing is wrong', async () => {
    const { code, out } = await runCommand(['publish', '--url', `http://127.0.0.1:${server.port}/`])
    expect(code).toBe(0)
    expect(out).toMatch(/ok {7}402: \d+ paid operations answer as indexers want it/)
    expect(out).toContain('Coinbase Bazaar: not yet\n  in the way: ')
    const { out: json } = await runCommand(['publish', '--url', `http://127.0.0.1:${server.port}`, '--json'])
    expect(JSON.parse(json)).toMatchObject({ networks: ['eip155:84532'], lists: { length: 4 } })
    expect(await runCommand(['publish', '--url', 'ai.example.com'])).toMatchObject({ code: 2 })
    const nobody = await runCommand(['publish', '--url', 'http://127.0.0.1:1'])
    expect([nobody.code, nobody.err]).toEqual([1, expect.stringContaining('Is a gateway running there?')])
  })
})
