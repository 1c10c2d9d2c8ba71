/** Polymarket: its data and Kalshi's, and the bridge that takes deposits. Neither needs a key. */
import { provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { polymarketBridge } from './bridge.ts'
import { predictionVenues } from './markets.ts'

export { polymarketBridge, type PolymarketBridgeConfig } from './bridge.ts'
export { predictionVenues } from './markets.ts'

export const manifest = provider({
  name: 'polymarket',
  title: 'Polymarket',
  settings: {
    polymarket_bridge_url: setting('Another address of the Polymarket bridge.', RootUrl, { usual: 'the public API' }),
  },
  environment: { POLYMARKET_BRIDGE_URL: 'polymarket_bridge_url' },
  serves: {
    prediction: {
      as: 'venues',
      note: 'Polymarket and Kalshi, without a key',
      uses: [],
      create: (_settings, { clock, log }) => predictionVenues({ clock, log }),
    },
    bridge: {
      as: 'bridge',
      create: ({ polymarket_bridge_url }, { clock, log }) =>
        polymarketBridge({ baseUrl: polymarket_bridge_url, clock, log }),
    },
  },
})
