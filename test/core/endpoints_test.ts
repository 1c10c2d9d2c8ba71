import { endpoints } from '../../core/endpoints/mod.ts'
import { brokenEndpoints } from '../conformance/broken_endpoints.ts'
import { endpointLaws, stall } from '../conformance/endpoints.ts'
import { runBroken, runLaws } from '../conformance/law.ts'

for (const { name, kind } of endpoints) {
  if (kind !== 'paid') continue
  runLaws(name, endpointLaws, () => stall(name))
  runLaws(`${name} as a job`, endpointLaws, () => stall(name, {}, { inlineMs: 0 }))
}

runBroken('endpoints', endpointLaws, brokenEndpoints)
