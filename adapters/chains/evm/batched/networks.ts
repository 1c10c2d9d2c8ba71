/** The networks that are offered: those of the configuration that the API supports. */
import type { ApiResult } from '../../facilitator/api.ts'
import { lower } from '../../lib/hex.ts'
import type { CheckResult } from '../../lib/results.ts'
import { addressProblem } from '../node/address.ts'
import { BATCHED, type BatchedNetwork } from './api.ts'
import { type BatchedParts, MAX_NETWORKS } from './scheme.ts'

export async function check(parts: BatchedParts, { now }: { now: number }): Promise<CheckResult> {
  const problems = addressProblem('pay_to', parts.payTo)
  if (problems.length > 0) return { kind: 'wrong', problems }
  const response = await refreshNetworks(parts, now)
  if (response.kind === 'failure')
    return response.setting
      ? { kind: 'wrong', problems: [`api_url: ${response.reason}`] }
      : { kind: 'unavailable', reason: response.reason }
  const networkNames = response.value.map(({ network }) => network)
  const missing = parts.config.networks
    .filter((network) => !networkNames.includes(network))
    .map((network) => `networks: ${network} is not supported by the API`)
  const contracts = response.value.flatMap(({ asset, wallet }) => [lower(asset), lower(wallet)])
  const payToProblems = contracts.includes(lower(parts.payTo)) ? ['pay_to: must not be a contract of the API'] : []
  const withoutDomain = networkNames.filter((network) => parts.domainNumbers[network] === undefined)
  const missingDomains = withoutDomain
    .filter((network) => parts.config.networks.includes(network))
    .map((network) => `networks: ${network} needs its domain number in domains`)
  const allProblems = [
    ...missing,
    ...missingDomains,
    ...payToProblems,
    ...(networkNames.length === 0 ? ['api_url: the API supports no network'] : []),
  ]
  if (allProblems.length > 0) return { kind: 'wrong', problems: allProblems }
  const offered = parts.terms.map(({ network }) => network)
  const notOffered =
    parts.config.networks.length === 0 ? networkNames.filter((network) => !offered.includes(network)) : []
  const warnings =
    notOffered.length > 0
      ? [`networks: ${notOffered.join(', ')} are not offered; list the networks to offer, at most ${MAX_NETWORKS}`]
      : []
  parts.isOpen = true
  return { kind: 'ready', warnings }
}

async function refreshNetworks(parts: BatchedParts, now: number): Promise<ApiResult<readonly BatchedNetwork[]>> {
  parts.networksReadAt = parts.latestNow = now
  const response = await parts.api.supported({ now, timeoutMs: parts.verifyMs })
  if (response.kind === 'failure' || response.value.length === 0) return response
  parts.supportedNetworks = new Map(response.value.map((each) => [each.network, each]))
  const wanted = parts.config.networks.length > 0 ? parts.config.networks : [...parts.supportedNetworks.keys()]
  const found = wanted.flatMap((network) =>
    parts.domainNumbers[network] === undefined ? [] : (parts.supportedNetworks.get(network) ?? []),
  )
  parts.terms = found.slice(0, MAX_NETWORKS).map(({ network, asset, wallet, minValiditySeconds }) => {
    return {
      scheme: 'exact',
      network,
      asset,
      payTo: parts.payTo,
      extra: { ...BATCHED, verifyingContract: wallet },
      minValiditySeconds,
    }
  })
  return response
}

export async function refresh(parts: BatchedParts, { now }: { now: number }): Promise<void> {
  parts.latestNow = now
  if (parts.isOpen && now >= parts.networksReadAt + parts.networksRefreshMs) await refreshNetworks(parts, now)
  if (now < parts.transfersPolledAt + parts.transfersPollMs) return
  parts.transfersPolledAt = now
  await parts.monitor.poll({ now, timeoutMs: parts.verifyMs })
}
