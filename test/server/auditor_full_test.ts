/** The auditor of the ecosystem, over loopback: it has nothing to say that a field of ours could change. */
import { afterAll, describe, expect, test } from 'bun:test'
import type { Kit } from '../kit.ts'
import { program } from '../programs/mod.ts'
import { devnetGateway, oneVendorGateway, twoVendorGateway } from './advertised.ts'
import { gatewayProcesses } from './gateway_process.ts'

/** `@agentcash/discovery` stands in test/programs, which the type checker does not know. */
const auditor = await program('@agentcash/discovery')

type Warning = { readonly code: string; readonly severity: string }

const processes = gatewayProcesses()
const listening: { stop(now: boolean): unknown }[] = []
afterAll(() => {
  for (const server of listening) server.stop(true)
})

function serve({ gateway }: Kit): string {
  let callers = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => gateway.fetch(request, { ip: `192.0.2.${callers++}` }),
  })
  listening.push(server)
  return `http://127.0.0.1:${server.port}`
}

/** Output of `discovery <origin>`: for the document, each operation, and of the 402 of each paid one. */
async function audit(origin: string) {
  const found = (await auditor.getOpenAPI(origin)).unwrapOr(null)
  const warnings: Warning[] = [
    ...auditor.getWarningsForOpenAPI(found),
    ...(await auditor.getWarningsForFavicon(origin)).unwrapOr([]),
  ]
  if (!found || auditor.isOpenApiParseFailure(found)) return { paid: 0, warnings }
  const l2 = auditor.checkL2ForOpenAPI(found)
  warnings.push(...auditor.getWarningsForL2(l2), ...auditor.getWarningsForL4(auditor.checkL4ForOpenAPI(found)))
  let paid = 0
  for (const { path, method } of l2.routes) {
    const l3 = auditor.getL3ForOpenAPI(found, path, method)
    if (l3?.authMode === 'paid') {
      const probes = (await auditor.getProbe(origin + path)).unwrapOr([])
      const probe = probes.find((each: { readonly method: string }) => each.method === method)
      expect([method, path, typeof probe?.paymentRequiredBody]).toEqual([method, path, 'object'])
      l3.paymentRequiredBody = probe?.paymentRequiredBody
      paid++
    }
    warnings.push(...auditor.getWarningsForL3(l3))
  }
  return { paid, warnings }
}

describe('the auditor @agentcash/discovery', () => {
  test.each([
    ['a gateway with one vendor', oneVendorGateway, 4],
    ['a devnet', devnetGateway, 40],
  ] as const)(
    'says of %s that it has more than 40 operations, and nothing else (contract 19.16)',
    async (_, open, least) => {
      const { paid, warnings } = await audit(serve(open()))
      expect(warnings.map(({ code, severity }: Warning) => [severity, code])).toEqual([['warn', 'L2_ROUTE_COUNT_HIGH']])
      expect(paid).toBeGreaterThan(least)
    },
  )

  test('finds no error at a gateway with two vendors (contract 19.16)', async () => {
    const { paid, warnings } = await audit(serve(twoVendorGateway()))
    expect(errorsIn(warnings)).toEqual([])
    expect(paid).toBeGreaterThan(4)
  })

  test('finds no error at the gateways of a devnet process, on an EVM chain with several offers, Solana and nano', async () => {
    const url = await processes.start(processes.dir(), { FREE_PER_MINUTE: '1000000', FREE_PER_HOUR: '1000000' }).url
    const { gateways } = (await (await fetch(`${url}/devnet`)).json()) as {
      readonly gateways: readonly { readonly name: string; readonly base_url: string }[]
    }
    expect(gateways.map(({ name }) => name)).toEqual(['devnet', 'solana', 'nano', 'testnet'])
    for (const { name, base_url: origin } of gateways) {
      const { paid, warnings } = await audit(origin)
      expect([name, ...errorsIn(warnings)]).toEqual([name])
      expect(paid).toBeGreaterThan(40)
    }
  }, 120_000)
})

const errorsIn = (warnings: readonly Warning[]) => warnings.filter(({ severity }) => severity === 'error')
