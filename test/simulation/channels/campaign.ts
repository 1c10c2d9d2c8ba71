/** Many runs with channels. */
import { alone, type Campaign, campaignOf, type Plan } from '../campaign.ts'
import { pricesOf, productsOf } from '../products.ts'
import { type ChannelSetup, explore, type Run } from './explore.ts'
import { warmUp } from './keys.ts'
import type { ChannelRule } from './rules.ts'
import { quotingGateway } from './world.ts'

function channelSetup(rule: ChannelRule): ChannelSetup {
  const quoting = quotingGateway(rule)
  return { rule, products: productsOf(quoting, { isHarsh: true }), pricedAt: pricesOf(quoting) }
}

export async function channelCampaign(rule: ChannelRule, plan: Plan): Promise<Campaign<Run>> {
  await warmUp()
  return await campaignOf(() => {
    const on = channelSetup(rule)
    return (seed) => explore(on, seed)
  }, plan)
}

/** The same run again, with everything that happened. */
export async function channelReplay(rule: ChannelRule, seed: number): Promise<Run> {
  await warmUp()
  return await alone(() => explore(channelSetup(rule), seed, { isTraced: true }))
}
