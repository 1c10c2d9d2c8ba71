/** From configuration to those whose answers are passed on. On devnet the embedded ones fill in where nothing is set; elsewhere that is not for sale. */
import { demoWeb } from '../../adapters/providers/demo/search.ts'
import { defiLlama } from '../../adapters/providers/defillama/defi.ts'
import { EXA_SEARCH } from '../../adapters/providers/exa/search.ts'
import { exaWeb } from '../../adapters/providers/exa/web.ts'
import { predexon, predictionVenues } from '../../adapters/providers/polymarket/markets.ts'
import { demoDefi, demoPrediction } from '../../adapters/providers/demo/data.ts'
import type { Clock, DataVendor, Log, Vendors, WebSearchVendor } from '../../core/mod.ts'
import {
  type DataServices,
  type DefiConfig,
  notForSale,
  type PredictionConfig,
  type WebSearchConfig,
} from '../config/data.ts'
import type { Timed } from '../metrics.ts'

type Ports = { readonly clock: Clock; readonly log: Log }

export function dataVendors(
  config: DataServices,
  { timed, isDevnet, ...ports }: Ports & { readonly timed: Timed; readonly isDevnet: boolean },
): Pick<Vendors, 'websearch' | 'prediction' | 'defi'> {
  const usual = isDevnet ? ('sample' as const) : ('off' as const)
  const web = webOf(config.websearch ?? { by: isDevnet ? 'corpus' : 'off' }, ports)
  const prediction = predictionOf(config.prediction ?? { by: usual }, ports)
  const defi = defiOf(config.defi ?? { by: usual }, ports)
  if (!isDevnet) warn(config, ports.log)
  return {
    ...(web && { websearch: timed(config.websearch?.by ?? 'corpus', web) }),
    ...(prediction && { prediction: timed(config.prediction?.by ?? 'sample', prediction) }),
    ...(defi && { defi: timed(config.defi?.by ?? 'sample', defi) }),
  }
}

function warn(config: DataServices, log: Log): void {
  for (const missing of notForSale(config))
    log.info('not for sale here: its setting is missing, and its paths answer 503', { missing })
  const made = [
    config.websearch?.by === 'corpus' && 'websearch',
    config.prediction?.by === 'sample' && 'prediction',
    config.defi?.by === 'sample' && 'defidata',
  ].filter(Boolean)
  if (made.length > 0) log.warn('samples are sold for real money', { made })
}

function webOf(config: WebSearchConfig, ports: Ports): WebSearchVendor | undefined {
  if (config.by === 'exa') return exaWeb({ ...ports, key: config.key, baseUrl: config.baseUrl ?? EXA_SEARCH.baseUrl })
  return config.by === 'corpus' ? demoWeb() : undefined
}

function predictionOf(config: PredictionConfig, ports: Ports): DataVendor | undefined {
  if (config.by === 'predexon') return predexon({ ...ports, key: config.key, baseUrl: config.baseUrl })
  if (config.by === 'venues') return predictionVenues(ports)
  return config.by === 'sample' ? demoPrediction(ports) : undefined
}

function defiOf(config: DefiConfig, ports: Ports): DataVendor | undefined {
  if (config.by === 'defillama') return defiLlama({ ...ports, key: config.key, baseUrl: config.baseUrl })
  return config.by === 'sample' ? demoDefi(ports) : undefined
}
