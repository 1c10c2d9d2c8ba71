/** The steps that put an audited gateway on each list of paid APIs. */
import type { Audit } from './audit.ts'

/** `blocked`: why the list would refuse this gateway now. `steps`: what to do, in order. */
type Listing = { readonly name: string; readonly blocked: readonly string[]; readonly steps: readonly string[] }

/** Networks of test money, whose offers no index lists among the paid ones. */
const TEST_NETWORKS: ReadonlySet<string> = new Set([
  'eip155:84532',
  'eip155:11155111',
  'eip155:31337',
  'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
  'solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z',
])

type Gateway = {
  readonly origin: string
  readonly version: string
  /** How a command line starts `farebox`. */
  readonly command: string
}

/** Every list, in the order of what it brings. */
export function listings(audit: Audit, gateway: Gateway): readonly Listing[] {
  const { findings, networks, hasMpp } = audit
  const { origin, command } = gateway
  const host = new URL(origin).hostname
  const isPublic = origin.startsWith('https://') && host.includes('.') && !/^[\d.]+$/.test(host)
  const reachable = isPublic ? [] : [`${origin} is no https origin with a public name`]
  const wrong = findings.filter(({ level }) => level === 'wrong').length
  const mistakes = wrong > 0 ? [`${wrong} ${wrong === 1 ? 'finding' : 'findings'} above must be mended first`] : []
  const isTest = networks.length > 0 && networks.every((each) => TEST_NETWORKS.has(each))
  const money = isTest ? [`it is paid in test money alone (${networks.join(', ')})`] : []
  const blocked = [...reachable, ...mistakes]
  return [
    {
      name: 'Coinbase Bazaar',
      blocked: [...blocked, ...money],
      steps: [
        "It lists what Coinbase's own facilitator settles; there is nothing to register.",
        'Name that facilitator in the row of the gateway: facilitators = [{ url = "https://api.cdp.coinbase.com/platform/v2/x402", cdp_key_id_env = "…", cdp_key_secret_env = "…" }]',
        `Buy one call of each route that should be listed: ${command} buy chat "Hello" --url ${origin}`,
      ],
    },
    {
      name: 'x402scan, agentcash',
      blocked: [...blocked, ...money],
      steps: [
        `Enter ${origin} at https://www.x402scan.com/resources/register; it reads ${origin}/openapi.json and probes each route.`,
        'After a change of prices or routes enter it again.',
      ],
    },
    {
      name: 'MPP services',
      blocked: hasMpp
        ? [...blocked, ...money]
        : ['no 402 has a challenge of MPP (mpp = false, or nothing is paid by exact on EVM)'],
      steps: [
        `Directories read x-service-info and x-payment-info of ${origin}/openapi.json; check it with mppx validate ${origin}`,
      ],
    },
    {
      name: 'MCP Registry',
      blocked: reachable,
      steps: [
        'Write this to server.json, with a namespace of a domain that you own:',
        serverJson(gateway),
        'Then run mcp-publisher login dns and mcp-publisher publish, of github.com/modelcontextprotocol/registry.',
      ],
    },
  ]
}

/** The file of the MCP Registry: the name is the host, reversed. */
function serverJson({ origin, version }: Gateway): string {
  const name = `${new URL(origin).hostname.split('.').toReversed().join('.')}/farebox`
  return JSON.stringify(
    {
      $schema: 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json',
      name,
      title: 'Farebox',
      description: 'AI by the call: chat, images, video and audio, paid in USDC. No account.',
      version,
      remotes: [{ type: 'streamable-http', url: `${origin}/mcp` }],
    },
    null,
    2,
  )
}
