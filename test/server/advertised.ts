/** Gateways with the vendors of the server's wiring, over memory adapters: what documents promise is what is sold. */
import { catalog } from '../../core/mod.ts'
import { parseConfig } from '../../server/config/mod.ts'
import type { Environment } from '../../server/config/settings.ts'
import { untimed, vendorsOf } from '../../server/wiring/vendors.ts'
import { type Kit, kit, testClock, testLog } from '../kit.ts'

/** Nobody answers there: what is configured so is never asked. */
const NOBODY = 'http://127.0.0.1:1'
const REAL = `[[gateways]]
name = "real"
pay_to = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
port = 0
batched = { url = "${NOBODY}" }
`

/** Products of a devnet without any key. */
export const devnetGateway = (): Kit => gatewayWith('', {}, true)
/** A gateway for real money with the key of one vendor, and nothing else. */
export const oneVendorGateway = (): Kit => gatewayWith(REAL, { OPENAI_API_KEY: 'sk-none' }, false)
/** The same with the keys of two. */
export const twoVendorGateway = (): Kit =>
  gatewayWith(REAL, { OPENAI_API_KEY: 'sk-none', GEMINI_API_KEY: 'none' }, false)

function gatewayWith(toml: string, env: Environment, isDevnet: boolean): Kit {
  const read = parseConfig(`object_store = "memory:"\ndatabase_url = "memory:"\n${toml}`, env)
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  const { config } = read
  const clock = testClock()
  const log = { ...testLog(), access() {}, flush() {} }
  const countTokens = async (text: string) => Math.ceil(text.length / 4)
  const nodes = isDevnet ? { 'base-sepolia': NOBODY } : {}
  const vendors = vendorsOf(config, { log, clock, undo: [], timed: untimed, isDevnet, countTokens, nodes })
  const { images, chat, video, audio } = { ...config, video: config.videos }
  return kit({
    catalog: catalog({ images: images.rows, chat: chat.rows, video: video.rows, audio: audio.rows }),
    networks: ['eip155:84532'],
    allowlists: isDevnet ? { generate_content: ['0x209693Bc6afc0C5328bA36FaF03C514EF312287C'] } : {},
    ports: { clock, countTokens, vendors },
  })
}
